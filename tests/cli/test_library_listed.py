"""`catdiag derive` without an operator lists those of the library."""

from catdiag import library


def test_the_library_is_listed(run):
    done = run("derive")
    assert done.status == 0
    assert [line.split()[0] for line in done.out.splitlines()[:-1]] == list(library.names())
    assert "catdiag derive NAME" in done.out


def test_options_need_an_operator(run):
    run("derive", "--on", "h100").one_message(2, "no operator is given")
