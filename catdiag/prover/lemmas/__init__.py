"""Lemmas beyond normal forms: linear arithmetic and maxima.

- `linear_arithmetic`: a comparison as a combination of known comparisons (Farkas' lemma).
- `max_bounds`: elements are at most their maximum; `max_attained`: a maximum that is equal to a bound;
  `element_bounds`: a maximum or sum that is real, or not 0, because an element is.
"""
