#include "engine/sites.h"

#include <mutex>
#include <vector>

namespace torch_tpu::engine {
namespace {

struct Sites {
  std::mutex mutex;
  std::vector<std::string> names;
};

Sites& sites() {
  static Sites* instance = new Sites;
  return *instance;
}

}  // namespace

int64_t site_of(const std::string& name) {
  Sites& s = sites();
  std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < s.names.size(); ++i) {
    if (s.names[i] == name) return static_cast<int64_t>(i) + 1;
  }
  s.names.push_back(name);
  return static_cast<int64_t>(s.names.size());
}

std::string site_name(int64_t site) {
  Sites& s = sites();
  std::lock_guard lock(s.mutex);
  return site > 0 && site <= static_cast<int64_t>(s.names.size()) ? s.names[site - 1]
                                                                  : "an operator";
}

}  // namespace torch_tpu::engine
