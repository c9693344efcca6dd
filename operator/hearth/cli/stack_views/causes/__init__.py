"""Why a Stack is not ready: from the Stack to the root cause, one sentence and one command each."""
