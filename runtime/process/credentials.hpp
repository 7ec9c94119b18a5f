// Credentials of a run: a secret, and a certificate signed by an authority made for this run. The
// processes of the run authenticate each other with them. Files of mode 0600 in a folder of mode
// 0700; children get the folder's path, never the contents.

#pragma once

#include <filesystem>
#include <string>

namespace troupe::runtime {

/// PEM files, as TLS libraries read them.
struct credential_files {
  std::filesystem::path authority;    ///< certificate; a peer that it signed belongs to the run
  std::filesystem::path certificate;  ///< shared by all processes of the run, as client and server
  std::filesystem::path key;          ///< private key of the certificate
  std::filesystem::path secret;
};
credential_files credential_files_in(const std::filesystem::path& folder);

struct credentials {
  std::string authority, certificate, key;  ///< PEM
  std::string secret;                       ///< 64 hexadecimal digits: 32 random bytes
  bool operator==(const credentials&) const = default;
};

/// Creates credentials in a folder that is new or empty: an authority and a certificate with P-256
/// keys, named after the run. They are valid for ten years from yesterday, because clocks of hosts
/// differ. The authority's key is discarded, so that no second certificate can be signed. An empty
/// `secret` means a new one. Throws io_error.
void make_credentials(const std::filesystem::path& folder,
                      const std::string& run_id,
                      const std::string& secret = {});

/// Copies credentials, with their modes, to a folder that is new or empty. Throws as
/// read_credentials, and io_error.
void copy_credentials(const std::filesystem::path& from, const std::filesystem::path& to);

/// Throws input_error when a file is missing, or when another user owns it or may read it.
credentials read_credentials(const std::filesystem::path& folder);

/// Writes one line of JSON, for a private channel to another host.
std::string text_of(const credentials& x);
/// Throws input_error.
credentials credentials_in(const std::string& text);

/// Writes them to a folder that is new or empty. Throws as make_credentials.
void write_credentials(const std::filesystem::path& folder, const credentials& x);

}  // namespace troupe::runtime
