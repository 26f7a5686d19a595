"""What a proof needs that no normal form gives: comparisons that add up, and maxima.

- `linear_arithmetic`: which known comparisons add up to a wanted one; `max_bounds`: no term is above its maximum;
- `max_attained`: a maximum that equals a bound.
"""
