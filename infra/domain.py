"""A name of your own for the API: its certificate is yours, and so is the record that points at it."""

import aws_cdk as cdk
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_certificatemanager as acm
from constructs import Construct


class Domain(Construct):
    """`name` → the API's stage, at the root. The output says what a CNAME or alias record must point at."""

    def __init__(
        self, scope: Construct, id_: str, *, name: str, certificate_arn: str, rest: apigateway.RestApi
    ) -> None:
        super().__init__(scope, id_)
        domain = apigateway.DomainName(
            self,
            "Name",
            domain_name=name,
            certificate=acm.Certificate.from_certificate_arn(self, "Certificate", certificate_arn),
            endpoint_type=apigateway.EndpointType.REGIONAL,
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
        )
        domain.add_base_path_mapping(rest, stage=rest.deployment_stage)
        target = cdk.CfnOutput(self, "Target", value=domain.domain_name_alias_domain_name)
        target.override_logical_id("ApiDomainTarget")
