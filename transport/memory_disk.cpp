#include "transport/memory_disk.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "planning/random.hpp"

namespace stagecraft {
namespace {

// "./a//b/" and "a/b" are one file; the folder in which relative paths begin is "".
std::string normal(const std::string& path) {
  std::string name = std::filesystem::path(path).lexically_normal().string();
  if (name.size() > 1 && name.back() == '/') name.pop_back();
  return name == "." ? "" : name;
}

std::string folder_of(const std::string& name) { return std::filesystem::path(name).parent_path().string(); }
std::string last_of(const std::string& name) { return std::filesystem::path(name).filename().string(); }
std::string join(const std::string& folder, const std::string& name) {
  return folder.empty() || folder == "/" ? folder + name : folder + "/" + name;
}

}  // namespace

struct MemoryDisk::Node {
  using Names = std::map<std::string, NodeRef>;

  explicit Node(bool is_folder) : folder(is_folder) {}

  bool folder;
  // Of a file: what is read, and what a power cut leaves for sure.
  std::string content, synced;
  // Of a folder: the names as they are, as they are on the medium, and after each change since.
  Names names, synced_names;
  std::vector<Names> changes;

  void set(const std::string& name, NodeRef node) {
    names[name] = std::move(node);
    changes.push_back(names);
  }
  void erase(const std::string& name) {
    names.erase(name);
    changes.push_back(names);
  }
  void sync() {
    synced = content;
    synced_names = names;
    changes.clear();
  }

  // Calls visit(path, file) for all files.
  void each_file(const std::string& path, const std::function<void(const std::string&, const Node&)>& visit) const {
    if (!folder) visit(path, *this);
    for (const auto& [name, node] : names) node->each_file(join(path, name), visit);
  }

  void power_cut(const std::optional<std::uint64_t>& seed, std::uint64_t& draws) {
    const auto draw = [&](std::uint64_t bound) { return seed ? bounded(keyed(*seed, draws++, bound), bound) : 0; };
    if (!folder && content != synced) {
      const std::size_t part = draw(content.size() + 1);
      switch (draw(5)) {
        case 0:
          content = synced;
          break;
        case 1:
          content.clear();
          break;
        case 2:
          content.resize(part);
          break;
        case 3:
          std::fill(content.begin() + static_cast<std::ptrdiff_t>(part), content.end(), '\0');
          break;
        default:
          break;  // all of it had got there
      }
    }
    if (const std::uint64_t n = draw(changes.size() + 1); n == 0)
      names = synced_names;
    else
      names = changes[n - 1];
    sync();
    for (const auto& [name, node] : names) node->power_cut(seed, draws);
  }
};

class MemoryDisk::Writer final : public FileWriter {
 public:
  Writer(MemoryDisk& disk, NodeRef file) : disk_(disk), file_(std::move(file)) {}

  DiskStatus write(std::string_view bytes) override {
    const std::lock_guard lock(disk_.mutex_);
    file_->content += bytes;
    return std::nullopt;
  }
  DiskStatus finish() override {
    const std::lock_guard lock(disk_.mutex_);
    file_->sync();
    return std::nullopt;
  }

 private:
  MemoryDisk& disk_;
  NodeRef file_;
};

MemoryDisk::MemoryDisk(std::shared_ptr<Disk> base)
    : base_(std::move(base)), absolute_(std::make_shared<Node>(true)), relative_(std::make_shared<Node>(true)) {}

MemoryDisk::~MemoryDisk() = default;

MemoryDisk::NodeRef MemoryDisk::find(const std::string& name) const {
  NodeRef at = name.starts_with('/') ? absolute_ : relative_;
  for (const auto& part : std::filesystem::path(name).relative_path()) {
    const auto found = at->names.find(part.string());
    if (found == at->names.end()) return nullptr;
    at = found->second;
  }
  return at;
}

bool MemoryDisk::is_gone(const std::string& name) const {
  for (std::string above = name; !above.empty() && above != "/"; above = folder_of(above))
    if (gone_.contains(above)) return true;
  return false;
}

MemoryDisk::Kind MemoryDisk::kind_below(const std::string& name) const {
  if (!base_ || is_gone(name)) return Kind::nothing;
  const auto listed = base_->list(name.empty() ? "." : name);
  if (listed) return Kind::folder;
  return listed.error().code == ENOTDIR && base_->read_at(name, 0, {}) ? Kind::file : Kind::nothing;
}

MemoryDisk::Kind MemoryDisk::kind(const std::string& name) const {
  if (const NodeRef node = find(name)) return node->folder ? Kind::folder : Kind::file;
  return kind_below(name);
}

// The folder `name`, which may be one of the disk below so far: errno, or 0.
int MemoryDisk::folder_to_write(const std::string& name, NodeRef& folder) {
  folder = name.starts_with('/') ? absolute_ : relative_;
  std::string path = name.starts_with('/') ? "/" : "";
  for (const auto& part : std::filesystem::path(name).relative_path()) {
    path = join(path, part.string());
    auto& next = folder->names[part.string()];
    if (!next) {
      const Kind below = kind_below(path);
      if (below != Kind::folder) {
        folder->names.erase(part.string());
        return below == Kind::file ? ENOTDIR : ENOENT;
      }
      next = std::make_shared<Node>(true);
      folder->synced_names[part.string()] = next;
    }
    if (!next->folder) return ENOTDIR;
    folder = next;
  }
  return 0;
}

// The file `name`, made when it is missing, with the content of the disk below: errno, or 0.
int MemoryDisk::file_to_write(const std::string& name, NodeRef& file) {
  if (kind(name) == Kind::folder) return EISDIR;
  NodeRef folder;
  if (const int code = folder_to_write(folder_of(name), folder)) return code;
  file = find(name);
  if (file) return 0;
  file = std::make_shared<Node>(false);
  if (kind_below(name) == Kind::file) {
    auto content = base_->read(name);
    if (!content) return content.error().code;
    file->content = std::move(content.value());
    file->sync();
  }
  folder->set(last_of(name), file);
  return 0;
}

// Brings what the disk below holds under `name` here, as far as nothing here hides it.
void MemoryDisk::copy_up(const std::string& name) {
  if (kind_below(name) == Kind::nothing) return;
  NodeRef node;
  if (kind_below(name) == Kind::file) {
    if (!find(name)) file_to_write(name, node);
    return;
  }
  if (folder_to_write(name, node) != 0) return;
  const auto entries = base_->list(name);
  if (!entries) return;
  for (const DiskEntry& entry : entries.value()) copy_up(join(name, entry.name));
}

std::vector<std::string> MemoryDisk::glob(const std::string& pattern) {
  const std::lock_guard lock(mutex_);
  std::set<std::string> paths;
  if (base_) {
    for (const std::string& path : base_->glob(pattern))
      if (!is_gone(normal(path))) paths.insert(normal(path));
  }
  const auto add = [&](const std::string& path, const Node&) {
    if (::fnmatch(normal(pattern).c_str(), path.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0) paths.insert(path);
  };
  absolute_->each_file("/", add);
  relative_->each_file("", add);
  return {paths.begin(), paths.end()};
}

DiskResult<std::string> MemoryDisk::read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  if (const NodeRef node = find(name)) {
    if (node->folder) return disk_error("read", path, EISDIR);
    return node->content;
  }
  if (base_ && !is_gone(name)) return base_->read(path);
  return disk_error("read", path, ENOENT);
}

DiskResult<std::size_t> MemoryDisk::read_at(const std::string& path, std::uint64_t offset, std::span<char> into) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  if (const NodeRef node = find(name)) {
    if (node->folder) return disk_error("read", path, EISDIR);
    const std::uint64_t size = node->content.size();
    return node->content.copy(into.data(), into.size(), std::min(offset, size));
  }
  if (base_ && !is_gone(name)) return base_->read_at(path, offset, into);
  return disk_error("read", path, ENOENT);
}

DiskResult<std::vector<DiskEntry>> MemoryDisk::list(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(folder);
  const Kind what = kind(name);
  if (what != Kind::folder) return disk_error("list", folder, what == Kind::file ? ENOTDIR : ENOENT);
  std::map<std::string, DiskEntry> entries;
  if (kind_below(name) == Kind::folder) {
    const auto below = base_->list(name.empty() ? "." : name);
    if (!below) return below.error();
    for (const DiskEntry& entry : below.value())
      if (!is_gone(join(name, entry.name))) entries[entry.name] = entry;
  }
  if (const NodeRef here = find(name)) {
    for (const auto& [entry, node] : here->names) entries[entry] = {entry, node->folder, node->content.size()};
  }
  std::vector<DiskEntry> sorted;
  for (auto& [entry, value] : entries) sorted.push_back(std::move(value));
  return sorted;
}

DiskStatus MemoryDisk::make_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  NodeRef at = name.starts_with('/') ? absolute_ : relative_;
  std::string above = name.starts_with('/') ? "/" : "";
  for (const auto& part : std::filesystem::path(name).relative_path()) {
    above = join(above, part.string());
    if (kind(above) == Kind::file) return disk_error("make folder", path, EEXIST);
    NodeRef& next = at->names[part.string()];
    if (!next) {
      next = std::make_shared<Node>(true);
      at->sync();
    }
    at = next;
  }
  return std::nullopt;
}

DiskStatus MemoryDisk::append(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  NodeRef file;
  if (const int code = file_to_write(normal(path), file)) return disk_error("append to", path, code);
  file->content += text;
  return std::nullopt;
}

DiskStatus MemoryDisk::write_whole(const std::string& path, std::string_view text) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  NodeRef folder;
  if (kind(name) == Kind::folder) return disk_error("write", path, EISDIR);
  if (const int code = folder_to_write(folder_of(name), folder)) return disk_error("write", path, code);
  const auto file = std::make_shared<Node>(false);
  file->content = text;
  file->sync();
  folder->set(last_of(name), file);
  folder->sync();
  return std::nullopt;
}

DiskResult<std::unique_ptr<FileWriter>> MemoryDisk::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  NodeRef file;
  if (const int code = file_to_write(normal(path), file)) return disk_error("write", path, code);
  file->content.clear();
  return DiskResult<std::unique_ptr<FileWriter>>(std::make_unique<Writer>(*this, file));
}

DiskStatus MemoryDisk::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const std::string old_name = normal(from), new_name = normal(to);
  if (kind(old_name) == Kind::nothing) return disk_error("rename", from, ENOENT);
  if (kind(new_name) != Kind::nothing) return taken_name(from, to);
  if (new_name.starts_with(join(old_name, ""))) return disk_error("rename", from, EINVAL);
  NodeRef old_folder, new_folder;
  copy_up(old_name);
  if (const int code = folder_to_write(folder_of(new_name), new_folder)) return disk_error("rename", from, code);
  if (const int code = folder_to_write(folder_of(old_name), old_folder)) return disk_error("rename", from, code);
  const NodeRef node = find(old_name);
  if (base_) gone_.insert(old_name);
  if (old_folder == new_folder) {  // one change
    old_folder->names.erase(last_of(old_name));
  } else {
    old_folder->erase(last_of(old_name));
  }
  new_folder->set(last_of(new_name), node);
  return std::nullopt;
}

DiskStatus MemoryDisk::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(path);
  const NodeRef folder = find(folder_of(name));
  if (folder && folder->names.contains(last_of(name))) folder->erase(last_of(name));
  if (base_) gone_.insert(name);
  return std::nullopt;
}

DiskStatus MemoryDisk::sync_folder(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  const std::string name = normal(folder);
  if (const Kind what = kind(name); what != Kind::folder)
    return disk_error("sync", folder, what == Kind::file ? ENOTDIR : ENOENT);
  if (const NodeRef here = find(name)) here->sync();
  return std::nullopt;
}

std::map<std::string, std::string> MemoryDisk::files() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> contents;
  const auto add = [&](const std::string& path, const Node& file) { contents[path] = file.content; };
  absolute_->each_file("/", add);
  relative_->each_file("", add);
  return contents;
}

void MemoryDisk::power_cut(std::optional<std::uint64_t> seed) {
  const std::lock_guard lock(mutex_);
  std::uint64_t draws = 0;
  absolute_->power_cut(seed, draws);
  relative_->power_cut(seed, draws);
}

}  // namespace stagecraft
