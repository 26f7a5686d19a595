"""A program line by line: what is allocated, where, and how much it takes.

- `listing_builder`: the lines of a program; `allocation_trace`: those of a kernel, read off its statements, and
  `trace_frames`: where the reading is; `program_lines`: the data of lines; `symbol_table`: names and formulas;
  `size_text`: sizes in words;
- `program_text`, `program_picture`: the listing as text and as a picture; `kernel_table`: one kernel; `folding`: long
  programs made short; `pipeline_chart`: the iterations of a loop in clocks.
"""
