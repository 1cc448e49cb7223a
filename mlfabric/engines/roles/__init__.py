"""What hosts do, whatever carries their messages: state machines that every engine runs."""
