# Writes OUT, a source that includes the SOURCES below ROOT, each within a namespace of its own.
# Their headers come first and outside of it; guarded as they are, they are empty when the sources
# ask for them again. By paths below ROOT, so that checkouts share what is compiled.
cmake_policy(SET CMP0057 NEW)
set(headers "")
set(bodies "")
foreach(source IN LISTS SOURCES)
  file(STRINGS ${source} lines REGEX "^#include [<\"]")
  list(APPEND headers ${lines})
  file(RELATIVE_PATH path ${ROOT} ${source})
  string(REGEX REPLACE "[^A-Za-z0-9]" "_" name ${path})
  string(APPEND bodies "namespace in_${name} {\n#include \"${path}\"\n}\n")
endforeach()
list(REMOVE_DUPLICATES headers)
list(JOIN headers "\n" headers)
file(WRITE ${OUT} "${headers}\n\n${bodies}")
