"""Whole layers: planned and written here, checked and timed on a GPU.

python -m benchmarks.layers.prepare FOLDER [NAME…]      # anywhere: a plan and a module of each layer
python -m benchmarks.layers.run FOLDER [NAME…]          # on an H200, with torch, triton and this folder
"""
