// Keeps a second run out of a folder for as long as it lives, whichever process it is in. Main thread only.
#pragma once

#include <string>

namespace stagecraft::tools {

class FolderLock {
 public:
  /// By a file `folder`.lock beside it.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Another run holds it.
  bool is_taken() const { return is_taken_; }
  /// Why nothing can be written there; empty: it can.
  const std::string& problem() const { return problem_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_, problem_;
  bool is_taken_ = false;
  int descriptor_ = -1;
};

}  // namespace stagecraft::tools
