"""What a diagram costs: transfers, memory, the optimum of one under the other, hardware and plans.

- `io`: transfers and memory as formulas, under rules that it states;
- `live`: which arrays are on chip when; `kernels`: a diagram cut into GPU kernels; `amounts`: how many;
- `optimum`: the least transfers for a memory, in closed form; `posynomial`: certificates of that, and their checker;
  `powerform`: transfers as powers of the capacity;
- `hierarchy`: memories as graphs; `hardware`: chips;
- `timing`: predicted times; `plan`: tiles for a chip; `proof`: that they fit.
"""
