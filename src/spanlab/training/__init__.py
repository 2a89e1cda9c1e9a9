"""The one loop that every system and every task trains with. It knows no objective and no task by name."""
