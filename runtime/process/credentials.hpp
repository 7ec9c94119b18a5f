// What the processes of one run know each other by: a secret, and a certificate that an authority
// made for this run has signed. Files of mode 0600 in a folder of mode 0700; children get the
// folder's path, never the contents.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// Where they lie, as libraries of TLS want them: PEM.
struct credential_files {
  std::filesystem::path authority;    ///< its certificate: whom it has signed belongs to the run
  std::filesystem::path certificate;  ///< of every process of the run, client and server
  std::filesystem::path key;          ///< of the certificate
  std::filesystem::path secret;
};
credential_files credential_files_in(const std::filesystem::path& folder);

struct credentials {
  std::string authority, certificate, key;  ///< PEM
  std::string secret;                       ///< 64 hexadecimal digits: 32 bytes nobody can guess
  bool operator==(const credentials&) const = default;
};

/// New ones, in a folder that is made or empty: an authority and a certificate with keys on the
/// curve P-256, valid for ten years from a day ago on (clocks of hosts differ), named after the
/// run. The key of the authority is forgotten: nobody signs a second certificate. `secret`: empty:
/// a new one. Throws io_error.
void make_credentials(const std::filesystem::path& folder,
                      const std::string& run_id,
                      const std::string& secret = {});

/// The same in another folder, that is made or empty, with their modes. Throws as read_credentials,
/// and io_error.
void copy_credentials(const std::filesystem::path& from, const std::filesystem::path& to);

/// Throws input_error when one is missing, or others than this user may read them or own them.
credentials read_credentials(const std::filesystem::path& folder);

}  // namespace troupe::runtime
