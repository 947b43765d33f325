/* TensorFlow graphs in bytes: no input crashes the reader, and what it takes is consistent. */
#define STW_READER_IS   stw_graphdef_is
#define STW_READER_READ stw_graphdef_read
#include "graph_reader.h"
