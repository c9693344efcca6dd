"""Order among names: what comes before what, and where that is impossible. Pure; knows nothing of templates."""
