"""Runs of the evaluation: typed settings, launching, evaluation, records and tracking."""

from experiments.interrupts import told_in_a_line

told_in_a_line()  # here, as this module comes before all that take time to import
