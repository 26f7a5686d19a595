"""Lower bounds: what no schedule of a diagram's operations moves less than.

- `lower_bound`: the bounds; `dataflow`: a diagram with loops and groups opened; `reuse`: the cases that it has;
- `joint_bound`: certificates of sums over several contractions, and their checker; `joint_search` finds them;
- `bound_certificate`: certificates by segments, and their checker; `segments`: those for schedules that compute nothing
  twice; `compulsory_traffic`: what moves once whatever the schedule.
"""
