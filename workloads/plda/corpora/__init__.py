"""Where documents come from: one module a source, all to one prepared form.

A prepared folder holds words int32[tokens] (word ids, document after document), offsets
int64[documents + 1], train_documents and heldout_documents int32 (sorted numbers) and vocabulary
str[W]; of data with oddities also notes.txt, a line each.
"""
