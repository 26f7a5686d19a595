"""Functions that a generated launch function calls: checks of its arguments, and tensor descriptors.

These are texts of the generated module, in their order there. A launch takes a few microseconds on the host, as long as
a short kernel runs. So nothing here queries the driver twice for the same fact, and integers are divided by Python's
operator (`triton.cdiv` takes ten times as long).
"""

from __future__ import annotations

from string import Template

_CHECKS = Template('''def _power(n):
    """The least power of two that is no shorter."""
    return 1 << max(0, n - 1).bit_length()


def _block(n):
    """The length of a tile that holds n entries, as a side of a product."""
    return max($least, _power(n))


def _tiles(n, size):
    """How many tiles of a size hold n entries."""
    return -(-n // size)


def _runs(num_warps, num_stages, *further):
    """Refuses numbers of warps and buffers with which no kernel runs; `further` are those of another form of it."""
    if num_warps not in (1, 2, 4, 8, 16, 32, *further):
        more = "".join(f", or {n} with warp specialization" for n in further)
        raise ValueError(f"num_warps is {num_warps}: expected 1, 2, 4, 8, 16 or 32{more}")
    if not isinstance(num_stages, int) or num_stages < 1:
        raise ValueError(f"num_stages is {num_stages}: expected a number of buffers, 1 or more")


def _each(name, given, count):
    """A number for each kernel: what is given is that, or one for all."""
    if isinstance(given, int):
        return (given,) * count
    if len(given) != count:
        raise ValueError(f"{name} is {given}: expected one number, or one for each of {count} kernels")
    return given


def _positive(**tiles):
    for name, size in tiles.items():
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} is {size}: expected a number of entries, 1 or more")


def _powers(**tiles):
    for name, size in tiles.items():
        if size < 1 or size & (size - 1):
            raise ValueError(f"{name} is {size}: expected a power of two")


def _summed(**tiles):
    for name, size in tiles.items():
        if size < $least:
            raise ValueError(f"{name} is {size}: expected at least $least, as matrix units sum so many at a time")


def _long(*counts):
    for name, count in counts:
        if count >= 2**31 - 2**24:
            raise ValueError(f"{name} is {count}: expected less than {2**31 - 2**24:,}, as kernels count in 32 bits")


def _expect(name, tensor, shape, axes):
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}: expected {shape}, the axes {axes}")''')
"""Checks of tiles, warps, stages and shapes, and integer arithmetic; `least` is the shortest side that is summed."""


def checks(of_bytes: bool) -> str:
    """The checks. With 8-bit elements (`of_bytes`) matrix units sum twice as many at a time: at least 32, not 16."""
    return _CHECKS.substitute(least=32 if of_bytes else 16)


MERGING = '''@functools.cache
def _merging(tiles, lengths):
    """Tiles of a kernel that merges parts: halved, the longest first, where there are fewer programs than cores."""
    found = list(tiles)
    while True:
        entries = programs = 1
        for tile, length in zip(found, lengths):
            entries, programs = entries * tile, programs * _tiles(length, tile)
        if entries <= 256 or programs >= 128:
            return tuple(found)
        found[found.index(max(found))] //= 2'''


WRITABLE = '''def _bounds(tensor):
    """The bytes from the first entry of a tensor to the last."""
    first = tensor.data_ptr()
    steps = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride()))
    return first, first + (steps + 1) * tensor.element_size()


def _meets(offset, steps, tries):
    """Whether a sum of multiples of steps, each between its bounds, is an offset; also where that took too long."""
    if not steps:
        return offset == 0
    (step, low, high), *rest = steps
    least, most = (sum(s * ends[k] for s, *ends in rest) for k in (0, 1))
    for k in range(max(low, -((most - offset) // step)), min(high, (offset - least) // step) + 1):
        tries.append(k)
        if len(tries) > 1000 or _meets(offset - step * k, rest, tries):
            return True
    return False


def _repeats(tensor):
    """Whether some entries of a tensor may lie in one place."""
    steps = sorted(((s, n - 1) for n, s in zip(tensor.shape, tensor.stride()) if n > 1), reverse=True)
    if 0 in tensor.shape:
        return False
    if any(s == 0 for s, _ in steps):
        return True
    for k, (step, high) in enumerate(steps):
        rest = [(s, -n, n) for s, n in steps[k + 1 :]]
        if step <= sum(s * n for s, _, n in rest) and _meets(0, [(step, 1, high), *rest], []):
            return True
    return False


def _meet(one, other):
    """Whether two tensors may have bytes in common."""
    (first, last), (start, stop) = _bounds(one), _bounds(other)
    if 0 in one.shape or 0 in other.shape or last <= start or stop <= first:
        return False
    size, width = one.element_size(), other.element_size()
    steps = {1: [1 - width, size - 1]}
    for tensor, each, end in ((one, size, 1), (other, width, 0)):
        for n, step in zip(tensor.shape, tensor.stride()):
            ends = steps.setdefault(step * each, [0, 0])
            ends[end] += (n - 1) if end else 1 - n
    return _meets(start - first, sorted(((s, *ends) for s, ends in steps.items() if s), reverse=True), [])


def _writable(device, results, inputs, safe):
    """Refuses tensors that results cannot be written to. `safe` says of a result and an input what they may share:
    "all" that they are one and the same, since each program writes where only it has read before, "any" whatever it
    be, since all has been read by then."""
    for k, (name, tensor, dtype) in enumerate(results):
        if tensor.dtype != dtype or tensor.device != device:
            raise ValueError(f"{name} is of {tensor.dtype} on {tensor.device}: expected {dtype} on {device}")
        if _repeats(tensor):
            raise ValueError(
                f"{name} has strides {tensor.stride()}: expected a tensor whose entries have each a place of their own"
            )
        if device.type == "meta":
            continue
        for other, written, _ in results[:k]:
            if _meet(tensor, written):
                raise ValueError(f"{name} and {other} share memory: expected results that do not")
        for other, read in inputs:
            kind = safe.get((name, other))
            same = kind == "all" and (tensor.data_ptr(), tensor.stride(), tensor.dtype) == (
                read.data_ptr(), read.stride(), read.dtype)
            if kind != "any" and not same and _meet(tensor, read):
                other_than = ", or the same tensor" if kind == "all" else ""
                raise ValueError(
                    f"{name} shares memory with {other}, which may be read after that was written: expected a tensor "
                    f"that shares none with it{other_than}"
                )'''
"""Checks that the tensors given as `out` can be written to: no aliasing that would change results."""

AMD = '''def _amd():
    """Whether the GPUs are of AMD: then nothing is written in instructions of NVIDIA's."""
    return torch.version.hip is not None'''
"""Whose chips a module runs on."""

IS_AMD = "_amd"
"""The function of `AMD` that says so."""

REGISTERS = '''def _registers(warps, *rows):
    """All registers that a thread may have, where products have fewer rows than a warpgroup works on: the assembler
    else spares some for blocks that have no room in shared memory, and does one product after the other."""
    return {} if max(rows) >= 64 or _amd() else {"maxnreg": min(255, 65536 // (32 * warps))}'''
"""The register limit of a kernel with matrix products."""

CHECKED = '''class _Checked(TensorDescriptor):
    """A tensor that is read in boxes, of which `_boxed` has said that it can be: it is not checked again."""

    def __post_init__(self):
        pass'''
"""The class of tensor descriptors."""

CHIP = '''@functools.cache
def _chip(device):
    """The generation of a GPU (Hopper is 9), or 0."""
    return torch.cuda.get_device_capability(device)[0] if device.type == "cuda" else 0


def _copies(device):
    """Whether a device copies boxes of tensors itself."""
    return device.type == "meta" or _chip(device) >= 9'''
"""What a chip has: one that copies boxes itself also begins kernels while others end. Uses `functools`."""

DESCRIPTOR = "from triton.tools.tensor_descriptor import TensorDescriptor"

BOXED = '''def _room(shape, dtype, device):
    """An array whose rows start at multiples of 16 bytes, as the copy engine needs them."""
    each = 16 // dtype.itemsize
    wide = torch.empty((*shape[:-1], -(-shape[-1] // each) * each), dtype=dtype, device=device)
    return wide.narrow(-1, 0, shape[-1])


def _starts(tensor):
    """A number of bytes that divides where rows start, if the copy engine can read a tensor but for that; else None."""
    *strides, last = tensor.stride()
    if last != 1 or 0 in tensor.shape or min(strides, default=1) <= 0 or not _copies(tensor.device):
        return None
    at = 0 if tensor.device.type == "meta" else tensor.data_ptr()
    for stride in strides:
        at |= stride * tensor.element_size()
    return at & -at or 16


def _aligned(*given):
    """Tensors, each given with how often it is read. Where only that rows start elsewhere keeps the copy engine from
    reading them, and entries are read twice or more on average, copies whose rows start at multiples of 16 bytes: to
    copy once takes less time than to read a few bytes at a time."""
    starts = [_starts(tensor) for tensor, _ in given]
    tensors = [tensor for tensor, _ in given]
    often = sum(tensor.numel() * times for tensor, times in given)
    if None in starts or min(starts) >= 16 or often < 2 * sum(tensor.numel() for tensor in tensors):
        return tensors
    return [t if n >= 16 else _room(t.shape, t.dtype, t.device).copy_(t) for t, n in zip(tensors, starts)]


def _boxed(tensor, shape):
    """Whether boxes of a shape can be read of a tensor by the copy engine of its chip. In shared memory a box begins
    at a multiple of 128 bytes, and so does the next of a loop's buffers, which lie one after the other."""
    *strides, last = tensor.stride()
    size = tensor.element_size()
    if last != 1 or max(shape) > 256 or shape[-1] * size < 16 or not _copies(tensor.device):
        return False
    if math.prod(shape) * size % 128 or 0 in tensor.shape:
        return False
    if any(stride <= 0 or stride * size % 16 for stride in strides):
        return False
    return tensor.device.type == "meta" or tensor.data_ptr() % 16 == 0


def _copied(tensor, shape):
    """A tensor as its chip's copy engine reads boxes of it, or None where it cannot."""
    return _Checked(tensor, tensor.shape, tensor.stride(), shape) if _boxed(tensor, shape) else None'''
"""Tensor descriptors: when the copy engine can read blocks of a tensor; uses `_copies` and `math`."""

HAS_COPY_ENGINE = "_copies"
"""The function of `CHIP` that says whether a device has a copy engine (TMA). It takes `meta` for one that has."""
