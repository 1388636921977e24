"""Does what a publication says hold against the hardware, and against itself?"""
