"""The language server: answers on half-written files, and the process that speaks the protocol."""
