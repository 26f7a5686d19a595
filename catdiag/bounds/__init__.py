"""Lower bounds: what no schedule of a diagram's operations moves less than.

- `lower_bound`: the bounds; `dataflow`: a diagram with loops and groups opened; `reuse`: the cases that it has;
- `bound_certificate`: certificates by segments, and their checker; `segments`: those for schedules that compute nothing
  twice; `compulsory_traffic`: what moves once whatever the schedule.
"""
