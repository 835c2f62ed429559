"""One line per ingredient: what the protocol test combines."""

TARGETS: dict = {}
STUDENTS: dict = {}
TEACHERS: dict = {}
FEEDBACKS: dict = {}
