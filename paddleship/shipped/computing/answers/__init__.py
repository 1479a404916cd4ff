"""What a server answers for each row beside the outputs, under the name `answer`. One file for each kind, with its registration."""
