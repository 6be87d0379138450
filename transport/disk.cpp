#include "transport/disk.hpp"

#include <cerrno>
#include <system_error>

namespace stagecraft {
namespace {

std::string hint_for(int code) {
  switch (code) {
    case ENOENT:
      return "check the spelling, and that the folder is there";
    case EACCES:
    case EPERM:
      return "check the permissions of the file and of the folders above it";
    case EISDIR:
      return "it is a folder: name a file in it, or all of them with /*";
    case ENOTDIR:
      return "a part of the path is a file where a folder is needed";
    case EEXIST:
      return "a file stands where a folder is needed: move it or choose another path";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another folder";
    case EROFS:
      return "the file system is read-only: choose another folder";
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise the limit with ulimit -n";
    case ENAMETOOLONG:
      return "choose a shorter path";
    default:
      return "check the disk and try again";
  }
}

}  // namespace

DiskError disk_error(std::string doing, std::string path, int code) {
  return {std::move(doing), std::move(path), code, std::generic_category().message(code), hint_for(code)};
}

DiskError taken_name(std::string from, const std::string& to) {
  return {"rename", std::move(from), EEXIST, "'" + to + "' is there already", "move it away or choose another name"};
}

}  // namespace stagecraft
