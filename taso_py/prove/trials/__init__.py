"""The second judge of a law: instances drawn to contradict it, told apart from the kernel that proves."""
