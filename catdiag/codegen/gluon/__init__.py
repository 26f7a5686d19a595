"""Gluon: kernels with warp specialization, for loops whose products feed other products.

- `warp_specialization`: which programs have that form, and their iterations; `producer_warp`: what the warp does that
  loads; `gluon_source`: the text of both parts; `gluon_printer`: expressions as lines, with layouts.
"""
