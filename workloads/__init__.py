"""What is trained: workloads behind one protocol, knowing nothing of how updates travel."""
