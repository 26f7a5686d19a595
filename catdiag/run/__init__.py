"""Running diagrams on arrays, and counting what that moves.

- `numpy`: on NumPy arrays, in real blocks and tiles; `named`: arrays whose axes have names; `sizes`: from shapes;
- `machine`: two memories, with what passes between them counted; `outline`: what it reads off a graph first.
"""
