"""What a diagram costs: transfers, memory, the optimum of one under the other, hardware and plans."""
