"""The inner loops of planning, compiled. They work on rows of numbers instead of names."""
