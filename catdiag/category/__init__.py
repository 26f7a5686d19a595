"""The category: axes, array types, operations, and diagrams composed of them.

- `types`: axes, array types, objects; `ops`: the operations of boxes; `index_maps`: those that only move elements
  (reshapes, gathers, windows).
- `diagram`: morphisms, composed by `>>` and `@`; `graph`: their flat form (a dataflow graph), made by `flatten`.
- `equality`: equality of diagrams up to the laws of the category; `functor`: interpretations of diagrams, and weaving
  (mapping over an axis).
- `substitution`: boxes replaced by diagrams; `evaluation`: diagrams of Python functions, run.
- `integer_polynomial`: polynomials in sizes with integer coefficients.
"""
