"""Coverage-guided fuzzing of what reads other people's input: see README.md."""
