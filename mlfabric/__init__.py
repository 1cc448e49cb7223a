"""Network-accelerated distributed training: scheduler, policies, engines and emulated clusters."""
