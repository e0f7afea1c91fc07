// A file that belongs to a model beside its weights, such as a tokenizer: data sources name it, and checkpoints keep
// it.
#pragma once

#include <map>
#include <string>

namespace terrace {

struct AttachedFile {
  std::string role;       // by which commands and a later run find it in a checkpoint: "tokenizer"
  std::string path;       // of the file that is copied
  std::string stored_as;  // the name of the copy in the checkpoint's folder
  std::string text = {};  // its contents, where they are not those of a file; `path` is then not read
};

// The paths of the copies that a checkpoint keeps, by role.
using AttachedPaths = std::map<std::string, std::string>;

}  // namespace terrace
