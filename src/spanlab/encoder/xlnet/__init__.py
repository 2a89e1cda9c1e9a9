"""What only XLNet has: relative attention, two streams, a memory of earlier segments."""
