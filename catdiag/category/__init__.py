"""The category: axes, array types, operations, and diagrams that are composed of them.

- `types`: axes, array types and objects; `ops`: what a single box can do, of which `index_maps` are the reindexings;
- `diagram`: morphisms, composed by `>>` and `@`; `graph`: their flat form, made by `flatten`;
- `equality`: when two diagrams are one; `functor`: how every reading of a diagram is made, weaving included;
- `substitution`: boxes replaced by diagrams; `evaluation`: diagrams of functions, run;
- `integer_polynomial`: polynomials in sizes with integer coefficients.
"""
