"""What makes a graph safe on every value: the guards, what they are decided by, and the proof. Never builds."""
