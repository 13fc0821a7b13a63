"""The nouns that every layer shares: frozen values, standard library only."""
