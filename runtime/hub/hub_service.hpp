// The Hugging Face Hub or a mirror, and its local cache, from the environment variables of
// huggingface_hub.

#pragma once

#include "runtime/object/object_service.hpp"

#include <filesystem>
#include <string>

namespace troupe::runtime {

struct hub_service {
  std::string endpoint = "https://huggingface.co";  ///< without a trailing "/"
  std::string token;                                ///< empty: anonymous. Must never be printed.
  std::filesystem::path cache;                      ///< has models--ORG--NAME folders
  bool offline = false;                             ///< use the cache only
  std::string certificates;  ///< file of certificate authorities; empty: the system's
};

/// Reads HF_ENDPOINT, HF_TOKEN (else the file HF_TOKEN_PATH or HF_HOME/token), HF_HUB_CACHE (else
/// HF_HOME/hub), HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE, and REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE.
/// HF_HOME is ~/.cache/huggingface if not set. Throws input_error for values that a request cannot
/// contain, and without HOME if no variable names the cache.
hub_service hub_service_from(const environment& variables);
hub_service hub_service_from_process();

}  // namespace troupe::runtime
