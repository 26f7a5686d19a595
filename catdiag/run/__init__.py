"""Running diagrams on arrays, and counting the transfers between memories while they run.

- `numpy`: on NumPy arrays, in real blocks and tiles; `named`: arrays with named axes; `views`: reads at index
  arithmetic; `sizes`: axis sizes from array shapes;
- `machine`: one memory on chip, transfers and peak counted; `levels`: several memories on chip; `outline`: liveness and
  rematerialization, read off a graph before it runs.
"""
