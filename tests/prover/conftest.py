"""Makes the kernel's oracle importable here."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "kernel"))
