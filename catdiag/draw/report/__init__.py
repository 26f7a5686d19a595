"""Pages about derivations: one self-contained HTML file, and what notebooks show."""
