package deploy_test

// What the manifests may say, of the API of Kubernetes 1.30 and newer (preStop.sleep). A field that
// is not here is refused, as a cluster would drop it or refuse it: one that is used anew is added
// after a look at the reference.

type meta struct {
	Name   string
	Labels map[string]string
}

type Manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   meta
}

// workload is a StatefulSet or a Deployment.
type workload struct {
	Manifest `yaml:",inline"`
	Spec     struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		Strategy    struct {
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata meta
			Spec     pod
		}
		VolumeClaimTemplates []struct {
			Metadata meta
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct{ Requests map[string]string }
			}
		} `yaml:"volumeClaimTemplates"`
	}
}

type pod struct {
	AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
	EnableServiceLinks            *bool `yaml:"enableServiceLinks"`
	TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               struct {
		RunAsNonRoot        bool                  `yaml:"runAsNonRoot"`
		RunAsUser           int                   `yaml:"runAsUser"`
		RunAsGroup          int                   `yaml:"runAsGroup"`
		FSGroup             int                   `yaml:"fsGroup"`
		FSGroupChangePolicy string                `yaml:"fsGroupChangePolicy"`
		SeccompProfile      struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	TopologySpreadConstraints []struct {
		MaxSkew           int    `yaml:"maxSkew"`
		TopologyKey       string `yaml:"topologyKey"`
		WhenUnsatisfiable string `yaml:"whenUnsatisfiable"`
		LabelSelector     struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	Containers []container
	Volumes    []struct {
		Name      string
		ConfigMap *struct{ Name string } `yaml:"configMap"`
		EmptyDir  *struct {
			SizeLimit string `yaml:"sizeLimit"`
		} `yaml:"emptyDir"`
	}
}

type container struct {
	Name, Image string
	Args        []string
	Env         []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type service struct {
	Manifest `yaml:",inline"`
	Spec     struct {
		ClusterIP string `yaml:"clusterIP"`
		Selector  map[string]string
		Ports     []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		PublishNotReadyAddresses bool `yaml:"publishNotReadyAddresses"`
	}
}

type budget struct {
	Manifest `yaml:",inline"`
	Spec     struct {
		MaxUnavailable             int    `yaml:"maxUnavailable"`
		UnhealthyPodEvictionPolicy string `yaml:"unhealthyPodEvictionPolicy"`
		Selector                   struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
	}
}

type kustomization struct {
	APIVersion         string `yaml:"apiVersion"`
	Kind               string
	Resources          []string
	ConfigMapGenerator []struct {
		Name  string
		Files []string
	} `yaml:"configMapGenerator"`
}
