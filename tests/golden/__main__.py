"""What the library puts out, against what was accepted.

python -m tests.golden                       what differs; ends with 1 if anything does
python -m tests.golden --accept              accept what is put out now
python -m tests.golden --accept svg 'plan*'  only these kinds
python -m tests.golden '*/attention'         only this operator
python -m tests.golden --dump DIR            all texts into a folder, to compare two commits with `diff -r`
python -m tests.golden --suite               only what the test suite looks at
"""

import sys

from tests.golden.runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__))
