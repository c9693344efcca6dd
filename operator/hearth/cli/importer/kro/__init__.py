"""ResourceGraphDefinitions of kro and their instances as StackDefinitions and theirs."""
