"""Pictures of diagrams, derivations and plans: layouts make scenes, writers print them."""
