"""What several policies are made of; a policy's own file puts parts together."""
