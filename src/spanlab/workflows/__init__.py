"""Complete jobs behind the commands and the Python functions of the same name: settings in, a finished folder out."""
