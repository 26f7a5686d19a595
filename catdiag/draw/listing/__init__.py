"""A program line by line: what is allocated, where, and how much it takes.

- `allocation_trace`: the walk that counts memory, watched; `listing_builder`: its lines; `program_lines`: their data;
  `symbol_table`: names and formulas; `size_text`: sizes in words;
- `program_text`, `program_picture`: the listing as text and as a picture; `kernel_table`: one kernel; `folding`: long
  programs made short; `pipeline_chart`: the iterations of a loop in clocks.
"""
