// stagecraft certificate: a job's own authority, and a certificate and a key for each node.
//
// Exit codes: 0 done; 2 bad usage, an illegal file, or something stands where the result should go; 3 the disk failed,
// or an authority that is there can't be used.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "planning/bug.hpp"
#include "tools/commands.hpp"
#include "tools/open_topology.hpp"
#include "tools/output.hpp"
#include "transport/certificates.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* authority_name = "ca";

struct Holder {
  std::string name;  // of the files, too
  std::vector<std::string> addresses;
};

// A node of the file with the host on which it listens.
Holder holder_of(const NodeSpec& node) {
  std::string host = node.listen.substr(0, node.listen.rfind(':'));
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return {node.name, {host.substr(0, host.find('%'))}};  // the zone of an address means something on its machine only
}

// Those that get a certificate. Empty, with the reason on standard error, when there is something wrong with them.
std::vector<Holder> holders(const Topology& topology, const CertificateOptions& options) {
  std::vector<Holder> all;
  for (const NodeSpec& node : topology.nodes)
    if (options.node.empty() || node.name == options.node) all.push_back(holder_of(node));
  if (all.empty()) {
    complain("{}: there is no node '{}'; add it to the file first, so that its certificate can say where it listens\n",
             topology.file, options.node);
    return {};
  }
  for (const Holder& holder : all) {
    if (holder.name != authority_name) continue;
    complain("{}: a node called '{}' would take the files of the authority; give it another name\n", topology.file,
             authority_name);
    return {};
  }
  return all;
}

// What is to be written, in this order.
struct File {
  std::string path;
  std::string text;
  bool is_secret = false;
};

class Folder {
 public:
  Folder(Disk& disk, std::string path) : disk_(disk), path_(std::move(path)) {}

  std::string certificate(const std::string& name) const { return path_ + "/" + name + ".pem"; }
  std::string key(const std::string& name) const { return path_ + "/" + name + ".key"; }
  void add(const std::string& name, const Credentials& credentials) {
    files_.push_back({certificate(name), credentials.certificate, false});
    files_.push_back({key(name), credentials.key, true});
  }
  // Before anything is made.
  bool is_free(const std::vector<std::string>& names, bool force) const {
    if (force) return true;
    for (const std::string& name : names)
      for (const std::string& path : {certificate(name), key(name)}) {
        const auto found = disk_.read(path);
        if (!found && found.error().code == ENOENT) continue;
        complain("'{}' is there already, and nothing is written over; name another place with --out, or say --force\n",
                 path);
        return false;
      }
    return true;
  }
  // A key is its owner's alone from its first byte on.
  DiskStatus write() const {
    const mode_t usual = umask(S_IRWXG | S_IRWXO);
    DiskStatus status = disk_.make_directories(path_);
    for (const File& file : files_) {
      umask(file.is_secret ? S_IRWXG | S_IRWXO : usual);
      if (!status) status = disk_.write_whole(file.path, file.text);
    }
    umask(usual);
    return status;
  }

 private:
  Disk& disk_;
  std::string path_;
  std::vector<File> files_;
};

CalendarTime now() { return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()); }

// The one in the folder. Empty, with the reason on standard error, when it can't be read.
std::optional<Credentials> existing_authority(Disk& disk, const Folder& folder) {
  auto certificate = disk.read(folder.certificate(authority_name)), key = disk.read(folder.key(authority_name));
  for (const auto* read : {&certificate, &key}) {
    if (*read) continue;
    complain(
        "{}; --node needs the authority of the job: name its folder with --out, or make it first, without --node\n",
        read->error().text());
    return std::nullopt;
  }
  return Credentials{certificate.value(), key.value()};
}

Json to_json(const std::string& name, const Folder& folder, const Credentials& made) {
  const auto end = end_of_certificate(made.certificate);
  STAGECRAFT_ASSERT(end, "a certificate of '{}' without an end", name);
  return {{"name", name},
          {"certificate", folder.certificate(name)},
          {"key", folder.key(name)},
          {"expires", stagecraft::to_text(*end)}};
}

void print(const Json& made, bool json) {
  if (json) return say("{}\n", made.dump(-1, ' ', false, Json::error_handler_t::replace));
  const auto line = [](const Json& one) {
    say("  {:<16} {}, {}, until {}\n", one["name"].get<std::string>(), one["certificate"].get<std::string>(),
        one["key"].get<std::string>(), one["expires"].get<std::string>());
  };
  say("job {}: {} certificates\n", made["job"].get<std::string>(), made["nodes"].size());
  line(made["authority"]);
  for (const Json& node : made["nodes"]) line(node);
  say("give each node its own two files and ca.pem; ca.key is needed for new nodes only: keep it away from them\n");
}

}  // namespace

int certificate_command(const CertificateOptions& options) {
  const auto topology = open_topology(options.file);
  if (!topology) return bad_input;
  const auto named = holders(*topology, options);
  if (named.empty()) return bad_input;

  RealDisk disk;
  Folder folder(disk, options.out);
  const bool is_new_authority = options.node.empty();
  std::vector<std::string> names;
  if (is_new_authority) names.emplace_back(authority_name);
  for (const Holder& holder : named) names.push_back(holder.name);
  if (!folder.is_free(names, options.force)) return bad_input;

  const CalendarTime today = now();
  std::optional<Credentials> existing;
  if (!is_new_authority) existing = existing_authority(disk, folder);
  if (!is_new_authority && !existing) return bad_input;
  const CredentialsResult authority =
      existing ? CredentialsResult(*existing) : make_authority(topology->job.name, options.days, today);
  const auto failed = [](const std::string& why) {
    complain("no certificates were made: {}\n", why);
    return fault;
  };
  if (const auto* why = std::get_if<std::string>(&authority)) return failed(*why);
  const auto& signer = std::get<Credentials>(authority);
  if (is_new_authority) folder.add(authority_name, signer);

  Json made{{"job", topology->job.name}, {"nodes", Json::array()}};
  for (const Holder& holder : named) {
    const auto node = make_node_certificate(signer, holder.name, holder.addresses, options.days, today);
    if (const auto* why = std::get_if<std::string>(&node)) return failed(*why);
    const auto& credentials = std::get<Credentials>(node);
    if (const auto why = check_certificates(signer.certificate, credentials.certificate, credentials.key, today))
      return failed(*why);
    folder.add(holder.name, credentials);
    made["nodes"].push_back(to_json(holder.name, folder, credentials));
  }
  made["authority"] = to_json(authority_name, folder, signer);
  if (const auto error = folder.write()) {
    complain("{}\n", error->text());
    return fault;
  }
  print(made, options.file.json);
  return done;
}

}  // namespace stagecraft::tools
